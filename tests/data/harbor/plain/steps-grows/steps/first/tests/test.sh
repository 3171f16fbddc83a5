#!/bin/sh
. /tests/lib.sh
[ -e /tests/only-of-first ] && [ "$OF_THE_TASK, $OVERRIDDEN" = "task, by the step" ] || exit 1
expect list.txt 1 > /logs/verifier/reward.json
