// The question before an action that cannot be undone. On a terminal, commands that delete something name the
// consequence and wait for an answer. `--yes` skips the question. Without a terminal, and with --json, there is no
// question, so scripts continue.
import type { Command } from 'commander'
import { OperatorError } from '../../base/errors.ts'
import type { Invocation } from './open.ts'
import { Prompt } from './prompt.ts'
import { forTerminal } from '../../base/clean-text.ts'

export interface Sure {
  yes?: true
}

/** Adds the option that skips the question. */
export const asks = (command: Command): Command => command.option('--yes', 'skip the confirmation prompt')

/** Reads one answer from the terminal. */
async function typed(text: string): Promise<string> {
  const prompt = new Prompt()
  try {
    return await prompt.question(text)
  } finally {
    prompt.close()
  }
}

/**
 * Returns when the command may continue. Throws an OperatorError after any answer except yes. `consequence`: sentences
 * about the data that will be lost.
 */
export async function confirm(
  { terminal }: Pick<Invocation, 'terminal'>,
  { yes }: Sure,
  consequence: string,
  stdin: { isTTY?: boolean } = process.stdin,
  ask = typed,
): Promise<void> {
  if (yes || terminal.json || !terminal.interactive || stdin.isTTY !== true) return
  const answer = await ask(`${forTerminal(consequence)} Continue? [yes/no] `)
  if (!/^y(?:es)?$/i.test(answer)) throw new OperatorError('Nothing was changed.')
}
