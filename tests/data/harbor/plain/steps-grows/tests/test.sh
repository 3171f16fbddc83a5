#!/bin/sh
# The tests of steps that have none of their own.
. /tests/lib.sh
[ ! -e /tests/only-of-first ] || exit 1
expect list.txt 3 > /logs/verifier/reward.json
