import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OperatorError } from '../../src/base/errors.ts'
import { confirm } from '../../src/views/command/confirm.ts'
import { leaves } from '../../src/cli/examples.ts'
import { createProgram } from '../../src/cli/main.ts'
import { standardTerminal } from '../../src/views/command/terminal.ts'

/** Calls the confirmation as on a terminal, or without one. Returns the questions. */
async function asked(answer: string, how: { yes?: true; json?: boolean; stdin?: boolean; stdout?: boolean } = {}) {
  const { json = false, stdin = true, stdout = true, yes } = how
  const questions: string[] = []
  const terminal = { ...standardTerminal(json), interactive: stdout }
  const answered = (text: string): Promise<string> => (questions.push(text), Promise.resolve(answer))
  await confirm({ terminal }, yes ? { yes } : {}, 'The keys\u001b[2J are erased.', { isTTY: stdin }, answered)
  return questions
}

test('on a terminal, prints the consequence and continues only after "yes"', async () => {
  for (const answer of ['yes', 'y', 'YES'])
    assert.deepEqual(await asked(answer), ['The keys\ufffd[2J are erased. Continue? [yes/no] '], answer)
  for (const answer of ['', 'no', 'n', 'yesterday', 'example.org'])
    await assert.rejects(asked(answer), (thrown) => {
      assert.ok(thrown instanceof OperatorError)
      assert.equal(thrown.message, 'Nothing was changed.')
      return true
    })
})

test('skips the prompt with --yes, with --json and without a terminal', async () => {
  for (const how of [{ yes: true }, { json: true }, { stdin: false }, { stdout: false }] as const)
    assert.deepEqual(await asked('no', how), [], JSON.stringify(how))
})

test('only commands that delete data prompt and accept --yes', () => {
  const asking = leaves(createProgram({})).filter(([, command]) => command.options.some(({ long }) => long === '--yes'))
  assert.deepEqual(asking.map(([path]) => path).toSorted(), [
    'domain remove',
    'grant revoke',
    'queue drop',
    'suppression remove',
    'token revoke',
    'user lock',
    'user remove',
  ])
})
