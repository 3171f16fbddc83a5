#!/bin/sh

if grep -q "all is well" /app/report.txt && [ -s results/first ] && [ -s /logs/artifacts/agent.log ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
