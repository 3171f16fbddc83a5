# What the tests of all steps use: `expect FILE LINES`.
expect() { [ "$(wc -l < "$1")" -eq "$2" ] && reward=1 || reward=0; printf '{"reward": %s, "lines": %s}' "$reward" "$(wc -l < "$1")"; }
touch list.txt
