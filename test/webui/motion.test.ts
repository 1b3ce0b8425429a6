// Tests that pages move only for users who have not asked their system for less motion.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const FOLDER = join(import.meta.dirname, '../../src/console/browser')
/** A block for users who have not asked for less motion (Media Queries Level 5 §12.1). Its rules are indented. */
const ALLOWED = /^@media \(prefers-reduced-motion: no-preference\) \{\n(?: .*\n|\n)*\}$/gm
const MOTION = /\b(?:transition|animation|scroll-behavior)\b[^;{}]*:|behavior: 'smooth'|\.animate\(/

test('transitions and animations are only in blocks for users who accept motion', () => {
  const names = readdirSync(FOLDER).filter((name) => /\.(?:css|ts)$/.test(name))
  const moving = names.filter((name) => MOTION.test(readFileSync(join(FOLDER, name), 'utf8').replaceAll(ALLOWED, '')))
  assert.deepEqual(moving, [])
  assert.match(readFileSync(join(FOLDER, 'small.css'), 'utf8').match(ALLOWED)![0], MOTION)
})
