// Codes for whoever lost the device of the second factor. Who has one already gets codes on the page of the account.

export const recoveryCodes = `
create table recovery_codes (
  mac blob primary key,
  user_key integer not null references users on delete cascade
) strict, without rowid;
create index recovery_codes_user on recovery_codes (user_key);
`
