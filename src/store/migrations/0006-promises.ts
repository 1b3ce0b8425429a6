// The sixth migration: columns and digests for surviving failures of the machine.
import { digestSchema } from '../digests.ts'

export const promises = `
alter table deliveries add column trouble_since integer;
alter table agents add column paused_at integer;
${digestSchema}`
