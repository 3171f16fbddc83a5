#!/bin/sh
pwd > here
