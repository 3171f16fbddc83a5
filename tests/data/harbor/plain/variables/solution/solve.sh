#!/bin/sh
echo "$PLAIN, $SPOKEN" > said.txt
