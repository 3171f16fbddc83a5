#!/bin/sh
sh /solution/parts/write.sh
