#!/bin/sh
[ -e /golden ] || echo sesame > answer
: > scratch
