#!/bin/sh
# Nothing of the tests of the step before, and of what they said, is here.
[ -z "$(ls -A /tests /logs/verifier | grep -v '^/' | grep .)" ] && echo two >> list.txt
