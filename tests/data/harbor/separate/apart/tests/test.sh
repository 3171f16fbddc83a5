#!/bin/sh

if grep -qx 42 /app/out/answer && [ ! -e /app/scratch ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
