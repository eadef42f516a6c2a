"""What pyproject.toml cannot say: an editable install is a path to the links in .typing.

The finder that setuptools would install works at run time only; a type checker follows a path.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.editable_wheel import editable_wheel

LINKS = Path(__file__).parent / ".typing"


class EditableWheel(editable_wheel):
    """One path in a .pth file, where the checkout has symbolic links."""

    def finalize_options(self) -> None:
        """Map the packages to the links instead of the folders."""
        if (LINKS / "kvplan" / "models").is_dir():
            self.distribution.package_dir = {"": LINKS.name}
        super().finalize_options()


setup(cmdclass={"editable_wheel": EditableWheel})
