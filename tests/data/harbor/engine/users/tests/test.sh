#!/bin/sh

if [ "$(cat /logs/agent/me)" = nobody ] && [ "$(whoami)" = root ] && [ -s /logs/agent/log ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
