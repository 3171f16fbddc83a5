#!/bin/sh
echo one > list.txt
