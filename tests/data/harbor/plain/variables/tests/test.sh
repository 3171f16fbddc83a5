#!/bin/sh

if [ "$(cat said.txt)" = "$EXPECTED" ] && [ "$PLAIN, $SPOKEN" = "$EXPECTED" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
