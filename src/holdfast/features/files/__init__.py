"""Files: browse, read and upload the files of a session's workspace over HTTP."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(name="files", operations="bodies:OPERATIONS", routes={"files": "routes:FileRoutes"})
