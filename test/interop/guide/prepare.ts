// What the tests of this folder need before they go into a network without a way out.

import { existsSync } from 'node:fs'
import { missing } from '../rig/sandbox.ts'
import { debianRoot } from './base.ts'
import { debianPackage, type Package } from './package.ts'
import { FIRST, released, type Released } from './released.ts'

const PROGRAMS = [
  'mmdebstrap',
  'nsd',
  'ip',
  'nsenter',
  'unshare',
  'setpriv',
  'timeout',
  'dpkg-deb',
  'curl',
  'git',
  'tar',
]
const FOLDERS = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

/** What is not on this machine; empty when everything is there. */
export const absent = [
  ...missing(),
  ...PROGRAMS.filter((name) => !FOLDERS.some((folder) => existsSync(`${folder}/${name}`))),
  ...(existsSync('/proc/self/ns/cgroup') ? [] : ['namespaces for control groups']),
]

export interface Prepared {
  made: Package
  root: string
  first: Released
}

/** Made once; asked again it is only looked up. */
export async function prepare(): Promise<Prepared> {
  const made = await debianPackage()
  // Both mind the disk and the network more than the processor.
  const [root, first] = await Promise.all([debianRoot([...made.depends, 'unattended-upgrades']), released(FIRST)])
  return { made, root, first }
}
