#!/bin/sh
echo a > done
