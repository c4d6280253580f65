#!/bin/sh
# Stands for any program: runs the script beside the link it was called by. A test that wrote an
# executable file itself would now and then find it "busy", as other tests start processes meanwhile.
PATH=/usr/bin:/bin
. "$0.script"
