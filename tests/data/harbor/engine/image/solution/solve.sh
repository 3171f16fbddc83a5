#!/bin/sh
: > /made
