#!/bin/sh
printf 'a\nb\nc\n' > list.txt
