#!/bin/sh
echo three >> list.txt
