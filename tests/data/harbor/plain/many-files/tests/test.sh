#!/bin/sh
sh "$(dirname "$0")/lib/check.sh"
