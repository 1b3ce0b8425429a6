// The Go examples of the API reference, compiled and run with a server, one per kind of operation, and those of the
// other languages on a machine that has all of them.
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
    test('the application creates, lists, gets, changes, deletes, acts, views and downloads', async () => {
      await using postrider = await startTestAppliance({ open: true, domains: ['here.test'] })
      await runPrograms(postrider, language)
    })
  })
}
