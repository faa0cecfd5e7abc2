-- Objects in a bucket that hold large blobs. A row is here before its object is, and until it is deleted, so every
-- object is known. `blob` is what it holds: nothing until it is stored whole, and nothing again once that blob is
-- deleted, by whatever program. Nobody names an object after `due_at`, so without a blob it can then be deleted.
CREATE TABLE blob_objects (
  key    text        PRIMARY KEY COLLATE "C",
  blob   text        COLLATE "C" UNIQUE REFERENCES blobs (name) ON DELETE SET NULL,
  place  text        NOT NULL,
  due_at timestamptz NOT NULL
);
CREATE INDEX blob_objects_without_blob ON blob_objects (due_at) WHERE blob IS NULL;

-- Says that a stored object holds a blob, and counts who is about to name that. If another object holds it already,
-- that one stays, unless it was found to be broken. Raises an error, and changes nothing, if the object may be gone.
CREATE FUNCTION put_blob_object(
  object_key text, blob_name text, size bigint, more_promised integer, more_offered integer, broken text
)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  -- Of two who come at once, one waits here, and then sees what the other has done.
  INSERT INTO blobs (name, bytes, touched_at, promised, offered)
  VALUES (blob_name, size, clock_timestamp(), more_promised, more_offered)
  ON CONFLICT (name) DO UPDATE
  SET touched_at = excluded.touched_at, promised = blobs.promised + excluded.promised,
      offered = blobs.offered + excluded.offered;
  UPDATE blob_objects SET blob = NULL, due_at = clock_timestamp() WHERE blob = blob_name AND key = broken;
  IF EXISTS (SELECT FROM blob_objects WHERE blob = blob_name AND key <> object_key) THEN
    UPDATE blob_objects SET due_at = clock_timestamp() WHERE key = object_key;
    RETURN;
  END IF;
  UPDATE blob_objects SET blob = blob_name, due_at = clock_timestamp()
  WHERE key = object_key AND (blob = blob_name OR due_at > clock_timestamp());
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the object % may be gone', object_key;
  END IF;
END
$$;
