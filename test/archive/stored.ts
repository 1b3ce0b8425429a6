// The objects of backups in a directory.
import { readdirSync } from 'node:fs'
import { readName } from '../../src/archive/catalog.ts'

const named = (folder: string) =>
  readdirSync(folder)
    .toSorted()
    .flatMap((name) => readName(name) ?? [])

/** The names of the backups, the oldest first. */
export const backupsIn = (folder: string): string[] => named(folder).flatMap(({ name, shared }) => (shared ? [] : name))

/** The names of the objects that backups share, of one kind. */
export const sharedIn = (folder: string, kind: 'db' | 'files'): string[] =>
  named(folder).flatMap(({ name, shared }) => (shared === kind ? name : []))
