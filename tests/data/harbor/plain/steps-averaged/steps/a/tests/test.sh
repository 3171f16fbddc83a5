#!/bin/sh
grep -qs a done && echo 1 > /logs/verifier/reward.txt || echo 0.5 > /logs/verifier/reward.txt
