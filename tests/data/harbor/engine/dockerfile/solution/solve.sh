#!/bin/sh
cp given.txt taken.txt
