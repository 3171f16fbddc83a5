#!/bin/sh
lines=$(cat list.txt 2>/dev/null | wc -l)
score=0
[ "$lines" -eq 3 ] && score=1
printf '{"reward": %d, "lines": %d, "speed": 0.25}' "$score" "$lines" > /logs/verifier/reward.json
echo 0 > /logs/verifier/reward.txt
