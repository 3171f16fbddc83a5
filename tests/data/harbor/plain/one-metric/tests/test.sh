#!/bin/sh
[ -d made ] && echo '{"accuracy": true}' > /logs/verifier/reward.json || echo '{"accuracy": 0.0}' > /logs/verifier/reward.json
exit 7
