// The programs of the API reference in Go, compiled and run beside a server, one of each kind of operation; and those
// of the other languages on a machine that must have them all.
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { LANGUAGES } from '../../src/console/reference/samples.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { RUNS, runPrograms } from '../kit/programs.ts'
import { withPrograms } from './rig/need.ts'

for (const language of LANGUAGES) {
  const { program } = RUNS[language]
  const needed = language === 'curl' ? 'curl' : program
  const there = spawnSync(needed, [language === 'Go' ? 'version' : '--version']).status === 0
  withPrograms(`the programs of the reference in ${language}`, there ? [] : [needed], () => {
    test('make, list, show, change, delete, act, view and download', async () => {
      await using postrider = await startTestAppliance({ open: true, domains: ['here.test'] })
      await runPrograms(postrider, language)
    })
  })
}
