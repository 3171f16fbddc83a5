#!/bin/sh
if cmp -s /golden /srv/own/answer && [ ! -e /srv/own/scratch ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
