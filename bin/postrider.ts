#!/usr/bin/env node
import '../src/cli/quick.ts'
import { main } from '../src/cli/main.ts'

process.exitCode = await main(process.argv)
