#!/bin/sh
. /tests/lib.sh
[ "$OVERRIDDEN" = "by the task" ] && [ ! -e /tests/only-of-first ] || exit 1
expect list.txt 2 > /logs/verifier/reward.json
