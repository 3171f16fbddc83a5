#!/bin/sh
cp ~/asked asked
