#!/bin/sh
found=$(ls one two 2>/dev/null | wc -l)
echo "$found / 2" | awk '{ print $1 / $3 }' > /logs/verifier/reward.txt
