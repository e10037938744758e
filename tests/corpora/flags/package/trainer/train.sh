#!/bin/sh
echo "a script of the shell: $*"
