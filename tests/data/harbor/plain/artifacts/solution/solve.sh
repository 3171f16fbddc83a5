#!/bin/sh
echo all is well > /app/report.txt
mkdir -p results
echo 1 > results/first
echo log > /logs/artifacts/agent.log
