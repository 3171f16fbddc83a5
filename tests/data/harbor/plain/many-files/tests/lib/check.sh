grep -qx "$(cat /tests/lib/expected.txt)" greeting.txt && echo 1.0 > /logs/verifier/reward.txt || echo 0.0 > /logs/verifier/reward.txt
