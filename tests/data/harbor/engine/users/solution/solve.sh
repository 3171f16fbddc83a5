#!/bin/sh
whoami > /logs/agent/me
echo seen > /logs/agent/log
