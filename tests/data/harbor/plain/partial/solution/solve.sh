#!/bin/sh
: > one
: > two
