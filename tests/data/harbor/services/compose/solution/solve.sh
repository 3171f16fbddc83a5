#!/bin/sh
for i in 1 2 3 4 5 6 7 8 9 10; do wget -qO /app/page http://store:8000/ && exit 0; sleep 1; done; exit 1
