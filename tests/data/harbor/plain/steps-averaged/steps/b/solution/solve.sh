#!/bin/sh
echo b > done
