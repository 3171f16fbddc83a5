#!/bin/sh

if [ "$(cat /srv/site/here)" = /srv/site ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
