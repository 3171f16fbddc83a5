#!/bin/sh
mkdir made
