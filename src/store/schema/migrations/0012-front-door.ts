// A domain's policies for its own mail: MTA-STS for received mail (RFC 8461), and the DMARC policy that its owner
// should publish (RFC 9989).
export const frontDoor = `
alter table domains add column sts_mode text not null default 'none';
alter table domains add column sts_changed_at integer;
alter table domains add column dmarc_policy text not null default 'none';
`
