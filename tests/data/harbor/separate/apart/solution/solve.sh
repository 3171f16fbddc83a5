#!/bin/sh
mkdir -p /app/out
echo 42 > /app/out/answer
echo x > /app/scratch
