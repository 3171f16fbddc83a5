#!/bin/sh
# Runs the first 20 tasks of HumanEval with each model. Words behind it go to both runs, such as `--attempts 4`.
set -eu
for share in 0.3 0.8; do
    proctor run humaneval chat mock/humaneval --set "model.params.share=$share" --run-name "solves-$share" --limit 20 "$@"
done
