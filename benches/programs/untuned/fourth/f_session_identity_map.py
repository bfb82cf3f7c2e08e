"""Bug: one SQLAlchemy session for the whole service; the parent row collects all children."""

import random

from sqlalchemy import ForeignKey, String, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from parts import until


class Base(DeclarativeBase):
    pass


class Device(Base):
    __tablename__ = "device"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(40))
    readings: Mapped[list["Reading"]] = relationship(back_populates="device")


class Reading(Base):
    __tablename__ = "reading"
    id: Mapped[int] = mapped_column(primary_key=True)
    device_id: Mapped[int] = mapped_column(ForeignKey("device.id"))
    payload: Mapped[str] = mapped_column(String(4000))
    device: Mapped[Device] = relationship(back_populates="readings")


def store(session, device, payload):
    reading = Reading(payload=payload)
    device.readings.append(reading)  # CULPRIT
    session.commit()
    return reading.id


def main():
    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    rnd = random.Random(1)
    with Session(engine, expire_on_commit=False) as session:
        device = Device(name="gateway")  # CULPRIT-HOLDER
        session.add(device)  # CULPRIT-HOLDER
        session.commit()
        last = 0
        for n in until(110):
            last = store(session, device, rnd.randbytes(5000).hex())
    print(last > 0)


if __name__ == "__main__":
    main()
