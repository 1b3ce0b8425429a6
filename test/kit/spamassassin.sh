#!/bin/sh
# Stands in for SpamAssassin in tests: the same verdict on every mail, whatever is installed on the machine.
cat >/dev/null
echo 'X-Spam-Status: No, score=1.5 required=5.0 tests=HTML_MESSAGE,NO_RELAYS autolearn=no'
