// The places that the configuration names.
import { isAbsolute } from 'node:path'
import type { Clock } from '../base/clock.ts'
import { authoritiesOf, type Config } from '../base/config.ts'
import { readAuthorities } from '../base/tls.ts'
import { openPlace, type BackupPlace } from './places/place.ts'

type PlaceConfig = Pick<Config, 'backup' | 'tls' | 'webhooks'>

export function placeOf(config: PlaceConfig, target: string, clock: Clock): BackupPlace {
  const { bandwidth, dav, s3, sftp } = config.backup
  const authorities = authoritiesOf(config)
  return openPlace(
    target,
    { bandwidth, dav: given(dav), s3: given(s3), sftp: given(sftp) },
    { clock, authorities: () => readAuthorities(authorities) },
  )
}

/** Settings that are empty are not given. */
const given = <Settings extends object>(settings: Settings): Partial<Settings> =>
  Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== '')) as Partial<Settings>

export const isDirectory = (target: string): boolean => isAbsolute(target)

/** Whether a text that a command was given is a target and no file. */
export const isTarget = (text: string): boolean => /^(?:s3|sftp|https?\+dav):\/\/|^exec:/.test(text)
